#include "plugin/relay/able.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "plugin/conn.h"

#define FAILED_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t peer, until_ms;
    char why[256];
} failed[FAILED_MAX];
static unsigned next_failed;

void mn_relay_note_failed(uint64_t peer, const char *why)
{
    unsigned at = 0;

    pthread_mutex_lock(&lock);
    while (at < FAILED_MAX && (failed[at].peer != peer || !failed[at].until_ms))
        at++;
    if (at == FAILED_MAX)
        at = next_failed++ % FAILED_MAX;
    failed[at].peer = peer;
    failed[at].until_ms = mn_now_ms() + MN_RELAY_FORGET_MS;
    snprintf(failed[at].why, sizeof failed[at].why, "%s", why);
    pthread_mutex_unlock(&lock);
}

int mn_relay_lately_failed(uint64_t peer, char *why, size_t size)
{
    uint64_t now = mn_now_ms();
    int found = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAILED_MAX && !found; i++) {
        found = failed[i].peer == peer && failed[i].until_ms > now;
        if (found && why)
            snprintf(why, size, "%s", failed[i].why);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int signs_here(const struct mn_settings *settings)
{
    struct stat st;

    return settings->relay_socket[0] && !stat(settings->relay_socket, &st) && S_ISSOCK(st.st_mode);
}

enum mn_relay_able mn_relay_able(const struct mn_config *config, uint64_t peer)
{
    const struct mn_settings *s = &config->settings;

    if ((!config->uncabled && !(s->detour && config->relay)) ||
        (s->reach != MN_REACH_AUTO && s->reach != MN_REACH_RELAY))
        return MN_RELAY_OFF;
    if (!config->has_key && !signs_here(s))
        return MN_RELAY_KEYLESS;
    if (s->reach == MN_REACH_AUTO && mn_relay_lately_failed(peer, NULL, 0))
        return MN_RELAY_LATELY;
    return MN_RELAY_ABLE;
}
