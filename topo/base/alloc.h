/* Allocation and small text helpers for code off the data path. */
#ifndef MN_BASE_ALLOC_H
#define MN_BASE_ALLOC_H

#include <stddef.h>

#include "topo/base/err.h"

/* Ends the process with a message and exit status 1: for the command's own process. Code that runs
 * inside NCCL's calls uses calloc or mn_push() and returns MN_ERR_NOMEM instead, for NCCL's process
 * is not ours to end. */
_Noreturn void mn_no_memory(void);
/* Calls work(arg) so that mn_no_memory() below it, on this thread, ends work and nothing else: then
 * MN_ERR_NOMEM, and what work had allocated is lost. For what was written for the command and has
 * to run inside NCCL's calls. work holds no lock meanwhile, and calls nothing that does while it
 * calls mn_zalloc() or its like. */
enum mn_err mn_memory_try(void (*work)(void *arg), void *arg, struct mn_diag *diag);
/* Zeroed memory; when there is none, these and mn_grow() call mn_no_memory(). */
void *mn_zalloc(size_t size);
char *mn_strdup(const char *text); /* NULL gives NULL */
char *mn_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Makes room for one more element of elem bytes in *array (count used so far) and returns a zeroed
 * pointer to it: struct x *x = mn_grow((void **)&v->xs, &v->n_xs, sizeof *x); */
void *mn_grow(void **array, size_t *count, size_t elem);

/* The same with an error: NULL and *diag, the array as it was. */
void *mn_push(void *array, size_t *count, size_t elem, struct mn_diag *diag);

/* Copies with a terminating NUL, cutting; returns 0 when it was cut, 1 when all fitted. */
int mn_strlcpy(char *dst, const char *src, size_t size);
/* The same, but what is cut ends in a whole word and " …". */
int mn_strlcpy_words(char *dst, const char *src, size_t size);

/* Whole file as a NUL-terminated string (*len without the NUL; len may be NULL). Refuses more than
 * max bytes, and named pipes and devices (MN_ERR_CONFIG): a pipe has to be open already, as
 * /dev/stdin and a shell's <(command) are, and is waited for a minute at most. Caller frees. */
enum mn_err mn_file_read(const char *path, size_t max, char **text, size_t *len,
                         struct mn_diag *diag);
/* The same of a file that somebody has named: MN_ERR_CONFIG where it cannot be read. */
enum mn_err mn_file_read_named(const char *path, size_t max, char **text, size_t *len,
                               struct mn_diag *diag);

/* Writes through a temporary file beside path, fsync, rename, fsync of the folder: path holds the
 * old or the new bytes, never a part. What is replaced keeps its mode; a new file's is by umask. A
 * symbolic link stays one: what it leads to is written; see topo/base/follow.h for whose.
 * Without force an existing path is MN_ERR_EXISTS, untouched; with it, a folder, device or pipe is
 * MN_ERR_CONFIG. */
enum mn_err mn_file_write(const char *path, const void *data, size_t len, int force,
                          struct mn_diag *diag);

/* What was renamed or removed in the folder of path stays so, whatever happens to the machine. */
void mn_file_sync_folder(const char *path);

/* "64K", "1M", "1.5G", "64KiB", "4096": bytes in powers of 1024. Whole text must be used. */
enum mn_err mn_parse_size(const char *text, unsigned long long *bytes, struct mn_diag *diag);
/* "20s", "500ms", "1.5s", "2m", plain number = seconds: milliseconds. */
enum mn_err mn_parse_duration(const char *text, unsigned *ms, struct mn_diag *diag);
/* 65536 -> "64K", 1000 -> "1000"; returns buf. */
char *mn_format_size(unsigned long long bytes, char *buf, size_t size);

#endif
