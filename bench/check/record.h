/* What a rule's process tells its parent: records of one size, so that each is one atomic write. */
#ifndef MN_CHECK_RECORD_H
#define MN_CHECK_RECORD_H

#include "bench/check.h"

enum mn_check_record_kind {
    MN_RECORD_STEP = 'S',
    MN_RECORD_LOG = 'L',
    MN_RECORD_NOTE = 'N',
    MN_RECORD_TELL = 'T',
    MN_RECORD_PASS = 'P', /* verdicts from here on; the first one counts */
    MN_RECORD_WARN = 'W',
    MN_RECORD_FAIL = 'F',
    MN_RECORD_SKIP = 'K',
};

struct mn_check_record {
    char kind;
    char text[1023];
};

/* Sends and, for a verdict, ends the process. */
void mn_check_send(struct mn_check *check, char kind, const char *text);
/* The whole life of a rule's process. */
_Noreturn void mn_check_child(const struct mn_check_target *target, int fd,
                              const struct mn_check_rule *rule);
void mn_check_probe_child(struct mn_check *check);

#endif
