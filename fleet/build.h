/* Which build of this program runs: the same everywhere it was copied to. */
#ifndef MN_BUILD_H
#define MN_BUILD_H

#define MN_BUILD_TEXT 65

/* The linker's build id in hexadecimal digits, "none" where it made none. */
const char *mn_build_id(char text[MN_BUILD_TEXT]);
/* Of the C library: "glibc 2.36". */
const char *mn_build_libc(void);

#endif
