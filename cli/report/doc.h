/* The results that a report shows, read from the documents of meshnet bench --json. Every text
 * points into the document, cleaned (cli/report/text.h), and lives as long as it; a number that is
 * not there is NaN, a text NULL. */
#ifndef MN_CLI_REPORT_DOC_H
#define MN_CLI_REPORT_DOC_H

#include <stddef.h>

#include "cli/results.h"

enum mn_grade { MN_GRADE_GOOD, MN_GRADE_WARN, MN_GRADE_BAD };

/* Below this share of what is expected a direction falls short, and below the next it is bad, where
 * a document has no findings of its own. */
#define MN_REPORT_SHORT 0.9
#define MN_REPORT_BAD   0.5

/* What a NIC carried of what went between the nodes of a pair. */
struct mn_report_carried {
    const char *from, *to, *node, *netdev;
    double share;
};

/* One link, or one pair of nodes over all of its links. */
struct mn_report_cell {
    int pair; /* else a link */
    const char *link, *from, *to, *netdev_from, *netdev_to, *status, *transport, *error,
        *expected_by;
    double bytes, out_gbps, in_gbps, both_gbps, p50_us, p99_us, expected_gbps, ratio, lost;
};

/* One direction of a cell. ratio is the share of what is expected. */
struct mn_report_way {
    const struct mn_report_cell *cell;
    const char *from, *to;
    double gbps, ratio;
    enum mn_grade grade;
    int measured;
    const struct mn_report_way *back; /* the other direction; NULL where there is none */
};

struct mn_report_finding {
    const char *severity, *link, *from, *to, *text;
};

/* How well a figure is known: half the width of its 95 % confidence interval in percent, and what
 * it rests on. */
struct mn_report_spread {
    double ci95, repetitions, outliers;
    int unsteady; /* still changing when it was measured */
};

struct mn_report_latency {
    double size, rounds, min, mean, p50, p99, p999;
    struct mn_report_spread spread;
};

struct mn_report_bandwidth {
    const char *direction;
    double size, gbps, messages, cpu;
    struct mn_report_spread spread;
};

struct mn_report_times {
    double time, p50, p99, algbw, busbw, wrong;
    struct mn_report_spread spread;
};

struct mn_report_collective {
    const char *collective, *type, *op, *algorithm;
    double bytes, count, iterations;
    struct mn_report_times place[2]; /* out of place, in place */
};

struct mn_report_doc {
    char *path;       /* the file's, cleaned; owned */
    const char *name; /* of it, as much as tells it from the report's others */
    struct mn_results results;
    const char *started, *version, *error, *here, *peer;
    int complete;
    double nranks, wrong, checked;
    size_t steadied, unsteady; /* measurements of which it is known, and those still changing */
    const char **nodes;
    struct mn_report_cell *cells;
    struct mn_report_way *ways;
    struct mn_report_finding *findings;
    struct mn_report_carried *carried;
    struct mn_report_latency *latency;
    struct mn_report_bandwidth *bandwidth;
    struct mn_report_collective *collectives;
    size_t n_nodes, n_cells, n_ways, n_findings, n_carried, n_latency, n_bandwidth, n_collectives;
};

struct mn_report {
    const char *title; /* the caller's, cleaned; NULL: one is made */
    struct mn_report_doc *docs;
    size_t n_docs;
    const cJSON **environment; /* nodes, each once */
    size_t n_environment;
};

/* Adds the document of a file. Errors: MN_ERR_CONFIG and what mn_file_read() gives, with file, line
 * or member, and what was expected. */
enum mn_err mn_report_read(struct mn_report *report, const char *file, struct mn_diag *diag);
void mn_report_free(struct mn_report *report);

/* "Run 2: b/link.json, 2026-05-12T10:02:07Z", for a report of several; returns buf. */
char *mn_report_run(const struct mn_report *report, const struct mn_report_doc *doc, char *buf,
                    size_t size);

/* Follows names of members from object to object: mn_report_at(json, "plugin", "sha256", NULL).
 * NULL where there is none. */
const cJSON *mn_report_at(const cJSON *object, ...) __attribute__((sentinel));

/* Whether the document has cells of pairs, or of links. */
int mn_report_has_cells(const struct mn_report_doc *doc, int pair);

/* What a document comes to, in one sentence. */
enum mn_grade mn_report_verdict(const struct mn_report_doc *doc, char *text, size_t size);
enum mn_grade mn_report_severity(const struct mn_report_finding *finding);
/* "link a-b, spark-a to spark-b", or shorter where less is known; returns buf. */
char *mn_report_where(const struct mn_report_finding *finding, char *buf, size_t size);

#endif
