#include "bench/check/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

static int inside(const struct mn_elf *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->size && size <= elf->size - offset;
}

static int is_library(const struct mn_elf *elf)
{
    const Elf64_Ehdr *head = (const void *)elf->data;

    return elf->size >= sizeof *head && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
           head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_type == ET_DYN &&
           (MACHINE == EM_NONE || head->e_machine == MACHINE);
}

/* A library without section headers has no table here; the loader's own lookups still work. */
static void find_symbols(struct mn_elf *elf)
{
    const Elf64_Ehdr *head = (const void *)elf->data;
    const Elf64_Shdr *sections = (const void *)(elf->data + head->e_shoff);
    size_t n = head->e_shnum;

    if (head->e_shoff % _Alignof(Elf64_Shdr) || head->e_shentsize != sizeof *sections ||
        !inside(elf, head->e_shoff, n * sizeof *sections))
        return;
    for (size_t i = 0; i < n; i++) {
        const Elf64_Shdr *sym = &sections[i], *str;
        if (sym->sh_type != SHT_DYNSYM || sym->sh_link >= n ||
            sym->sh_offset % _Alignof(Elf64_Sym) || !inside(elf, sym->sh_offset, sym->sh_size))
            continue;
        str = &sections[sym->sh_link];
        if (!inside(elf, str->sh_offset, str->sh_size) || str->sh_size == 0 ||
            elf->data[str->sh_offset + str->sh_size - 1] != '\0')
            continue;
        elf->symbols = (const void *)(elf->data + sym->sh_offset);
        elf->n_symbols = sym->sh_size / sizeof *elf->symbols;
        elf->strings = (const char *)elf->data + str->sh_offset;
        elf->strings_size = str->sh_size;
        return;
    }
}

enum mn_err mn_elf_open(const char *path, struct mn_elf *elf, struct mn_diag *diag)
{
    struct stat st;
    void *data = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no waiting for a pipe's writer */

    memset(elf, 0, sizeof *elf);
    if (fd < 0)
        return mn_fail(diag, errno == ENOENT ? MN_ERR_NOTFOUND : MN_ERR_USAGE, "%s: %s", path,
                       strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data != MAP_FAILED) {
        elf->data = data;
        elf->size = (size_t)st.st_size;
        if (is_library(elf)) {
            find_symbols(elf);
            return MN_OK;
        }
    }
    mn_elf_close(elf);
    return mn_fail(diag, MN_ERR_USAGE,
                   "%s is not a shared library of this machine; expected a 64-bit ELF file such as "
                   "libnccl-net-mesh.so",
                   path);
}

void mn_elf_close(struct mn_elf *elf)
{
    if (elf->data)
        munmap(elf->data, elf->size);
    memset(elf, 0, sizeof *elf);
}

const char *mn_elf_export(const struct mn_elf *elf, size_t index)
{
    const Elf64_Sym *sym = &elf->symbols[index];
    unsigned bind = ELF64_ST_BIND(sym->st_info), visibility = ELF64_ST_VISIBILITY(sym->st_other);

    if (sym->st_shndx == SHN_UNDEF || (bind != STB_GLOBAL && bind != STB_WEAK) ||
        (visibility != STV_DEFAULT && visibility != STV_PROTECTED) ||
        sym->st_name >= elf->strings_size)
        return NULL;
    return elf->strings + sym->st_name;
}
