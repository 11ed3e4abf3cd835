/* Logging. One sink for the process: stderr for the CLI, NCCL's logger for the plugin.
 * Thread-safe; never called on the data path when nothing is wrong. */
#ifndef MN_BASE_LOG_H
#define MN_BASE_LOG_H

enum mn_log_level { MN_LOG_ERROR, MN_LOG_WARN, MN_LOG_INFO, MN_LOG_DEBUG };

/* file and line are those of the caller; msg is one line without a newline. */
typedef void (*mn_log_sink)(enum mn_log_level level, const char *file, int line, const char *msg);

/* NULL restores the default: "meshnet: warning: …" on stderr, WARN and above unless MESHNET_LOG
 * (error, warn, info, debug) says otherwise. A sink gets every level and filters itself. */
void mn_log_set_sink(mn_log_sink sink);

void mn_log(enum mn_log_level level, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define MN_ERROR(...) mn_log(MN_LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)
#define MN_WARN(...)  mn_log(MN_LOG_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define MN_INFO(...)  mn_log(MN_LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define MN_DEBUG(...) mn_log(MN_LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)

#endif
