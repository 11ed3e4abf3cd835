/* What a node does when another asks: verbs with JSON in and JSON out, the same by ssh ("meshnet
 * node VERB": both on the standard streams), by agents (meshnet serve) and in this process. A new
 * verb is one file and one row. */
#ifndef MN_FLEET_NODE_H
#define MN_FLEET_NODE_H

#include <cjson/cJSON.h>
#include <sys/types.h>

#include "topo/base/err.h"

#define MN_NODE_TEXT (4u << 20) /* bytes of a question, and of an answer */

enum mn_node_root {
    MN_ROOT_NONE,
    MN_ROOT_LIKED,  /* sudo where it asks for no password, else as the user */
    MN_ROOT_BETTER, /* the same; the rule for sudoers that is suggested has it, too */
    MN_ROOT_NEEDED  /* the same, else an error that says what is needed */
};

struct mn_node_verb {
    const char *name;
    const char *what; /* a line for help */
    unsigned seconds; /* the longest it takes; whoever asks waits a little longer */
    /* The host is changed: by agents only where they were told to allow it. Goes on to its end when
     * whoever asked has gone, which ends all others. */
    int changes;
    int not_by_agents; /* never: what it touches is for the asker to say, as a user of the host */
    /* ask is a stranger's, to be checked; *answer is the caller's to cJSON_Delete and NULL after an
     * error. Runs in a process of its own, may print on stderr what people should see. */
    enum mn_err (*run)(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
    enum mn_node_root root;
};

extern const struct mn_node_verb mn_node_verbs[];          /* name NULL ends */
const struct mn_node_verb *mn_node_verb(const char *name); /* or NULL */

/* Runs the verb in a process of its own, and watches that somebody waits for the answer. The
 * question is standard input to its end (nothing is {}), the answer or {"error": text, "code": name
 * of the error} a line on standard output. Returns the exit code. */
int mn_node_stream(const char *verb);
/* The same, by sudo where the verb wants root and sudo asks for no password: to be the last thing
 * that a process does. */
int mn_node_here(const struct mn_node_verb *verb);
/* A shell's program that asks so the meshnet that is its $0. No single quote is in it. The caller's
 * to free. */
char *mn_node_script(const struct mn_node_verb *verb);
/* 1: this process is root by sudo; *uid (may be NULL) is who called it. */
int mn_sudo_user(uid_t *uid);
/* From here on with the rights of who called sudo, until mn_sudo_back(). NULL: nobody did, or he is
 * not known here, and nothing has changed. For processes of one thread. */
const struct passwd *mn_sudo_drop(void);
void mn_sudo_back(void);
/* MESHNET_CONFIG of this process, set before it has threads. By sudo the file is read here,
 * once, with the rights of who called it: what its name leads to later is not opened by root. One
 * that is not there stays missing; what the user may not read is MN_ERR_CONFIG. */
enum mn_err mn_sudo_config(const char *path, struct mn_diag *diag);
/* Its parts: an unknown verb is MN_ERR_USAGE, a question on standard input that is none
 * MN_ERR_PROTO; the caller's to cJSON_Delete. */
enum mn_err mn_node_find(const char *name, const struct mn_node_verb **verb, struct mn_diag *diag);
enum mn_err mn_node_read(cJSON **ask, struct mn_diag *diag);
/* A line on standard output; json is freed. MN_ERR_SYS when it was lost, with a line on standard
 * error. */
enum mn_err mn_node_put(cJSON *json);
/* The error's object. */
cJSON *mn_node_error(const struct mn_diag *diag);
/* What mn_node_stream wrote, of a stranger: its last line that is an object. Texts in *answer are
 * fit to be shown. The other side's error becomes this one's; MN_ERR_PROTO when it is neither. */
enum mn_err mn_node_parse(const char *text, cJSON **answer, struct mn_diag *diag);

#endif
