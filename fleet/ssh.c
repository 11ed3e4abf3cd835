#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/ssh.h"
#include "topo/nic.h"

#define WORDS 48

int mn_ssh_become(const struct mn_ssh *ssh)
{
    const char *program = getenv("MESHNET_SSH"), *words[WORDS] = {NULL};
    char where[MN_ADDR_TEXT + 16], alias[300], timeout[32];
    int n = 0;

    program = program && *program ? program : "ssh";
    snprintf(timeout, sizeof timeout, "ConnectTimeout=%u", ssh->connect_s);
    /* The keys and settings of the name hold wherever it leads. */
    snprintf(where, sizeof where, "HostName=%s", ssh->address ? ssh->address : "");
    snprintf(alias, sizeof alias, "HostKeyAlias=%s", ssh->host);
    const char *const fixed[] = {program, "-T",
                                 "-o",    "BatchMode=yes",
                                 "-o",    timeout,
                                 "-o",    "ServerAliveInterval=3",
                                 "-o",    "ServerAliveCountMax=2"};
    const char *const found[] = {"-o", where, "-o", alias, "-o", "CheckHostIP=no"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        words[n++] = fixed[i];
    for (size_t i = 0; ssh->address && i < sizeof found / sizeof *found; i++)
        words[n++] = found[i];
    for (const char *const *word = ssh->words; word && *word && n < WORDS - 4; word++)
        words[n++] = *word;
    words[n++] = "--";
    words[n++] = ssh->host;
    words[n++] = ssh->command;
    execvp(program, (char *const *)(uintptr_t)words);
    fprintf(stderr, "%s: cannot be run\n", program);
    return 1;
}

void mn_ssh_word(FILE *file, const char *word)
{
    fputs(" '", file);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", file);
        else
            fputc(*word, file);
    fputc('\'', file);
}

int mn_ssh_is_here(const char *host)
{
    const char *node = getenv("MESHNET_NODE");
    char own[65] = "";

    gethostname(own, sizeof own - 1);
    return !strcmp(host, "localhost") || !strcmp(host, own) || (node && !strcmp(host, node));
}
