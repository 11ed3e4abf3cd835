/* libc's streams as code finds them that was compiled for an executable (see alone.cmake):
 * variables beside the code, since the linker makes no copy of libc's for a library. */
#include <stdio.h>

extern FILE *__real_stdin, *__real_stdout, *__real_stderr;
#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN FILE *__wrap_stdin, *__wrap_stdout, *__wrap_stderr;
FILE *__wrap_stdin, *__wrap_stdout, *__wrap_stderr;

/* Before the constructors of the libraries, which keep what they find. */
__attribute__((constructor(101))) static void copy_streams(void)
{
    __wrap_stdin = __real_stdin;
    __wrap_stdout = __real_stdout;
    __wrap_stderr = __real_stderr;
}
