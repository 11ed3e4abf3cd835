#include "fleet/build.h"

#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Notes are a head, a name and bytes, the latter two in multiples of 4. */
static int find_id(const uint8_t *at, size_t left, char *text)
{
    while (left >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) head;
        memcpy(&head, at, sizeof head);
        size_t name = (head.n_namesz + 3u) & ~3u, bytes = (head.n_descsz + 3u) & ~3u;
        if (name + bytes > left - sizeof head)
            return 0;
        const uint8_t *id = at + sizeof head + name;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            !memcmp(at + sizeof head, "GNU", 4) && head.n_descsz < MN_BUILD_TEXT / 2) {
            for (size_t i = 0; i < head.n_descsz; i++)
                snprintf(text + 2 * i, 3, "%02x", id[i]);
            return 1;
        }
        at = id + bytes;
        left -= sizeof head + name + bytes;
    }
    return 0;
}

/* The first object is the program. */
static int look(struct dl_phdr_info *info, size_t size, void *text)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE &&
            find_id((const uint8_t *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                    info->dlpi_phdr[i].p_memsz, text))
            break;
    return 1;
}

const char *mn_build_id(char text[MN_BUILD_TEXT])
{
    snprintf(text, MN_BUILD_TEXT, "none");
    dl_iterate_phdr(look, text);
    return text;
}

const char *mn_build_libc(void)
{
    static char text[32];

    snprintf(text, sizeof text, "glibc %s", gnu_get_libc_version());
    return text;
}
