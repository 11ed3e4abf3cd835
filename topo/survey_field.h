/* The plain fields of a survey's NIC, as the writer and the reader of JSON both see them. */
#ifndef MN_SURVEY_FIELD_H
#define MN_SURVEY_FIELD_H

#include "topo/survey.h"

enum mn_survey_field_kind {
    MN_FIELD_TEXT,
    MN_FIELD_INT,
    MN_FIELD_LONG,
    MN_FIELD_REAL,
    MN_FIELD_FLAG
};

struct mn_survey_field {
    const char *group, *key; /* group: the object it is in; NULL = the NIC's own */
    enum mn_survey_field_kind kind;
    size_t at, size; /* in struct mn_survey_nic; size: of a text */
    double max;      /* of a number; the least is 0 */
};

extern const struct mn_survey_field mn_survey_fields[]; /* key NULL ends */
/* By enum mn_survey_way. */
extern const char *const mn_survey_ways[MN_SURVEY_LLDP + 1];

#endif
