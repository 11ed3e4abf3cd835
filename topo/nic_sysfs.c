/* sysfs: attribute readers, PCI functions, and what it knows of a netdev. */
#include "topo/nic_read.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"

__attribute__((format(printf, 3, 0))) static int join(char path[PATH_MAX], const char *root,
                                                      const char *fmt, va_list args)
{
    int len = snprintf(path, PATH_MAX, "%s/", root);
    if (len < 0 || len >= PATH_MAX)
        return 0;
    int more = vsnprintf(path + len, (size_t)(PATH_MAX - len), fmt, args);
    return more >= 0 && more < PATH_MAX - len;
}

/* What this thread could not read since mn_sysfs_begin, though it may be there. */
static _Thread_local struct {
    unsigned count;
    char first[160];
} missed;

/* errno is of path, which is absent as many are, or was out of this process's reach. */
static void note_missed(const char *path)
{
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
        return;
    if (!missed.count++)
        snprintf(missed.first, sizeof missed.first, "%.110s: %.40s", path, strerror(errno));
}

void mn_sysfs_begin(void)
{
    missed.count = 0;
}

int mn_sysfs_missed(char *buf, size_t size)
{
    *buf = 0;
    if (missed.count)
        snprintf(buf, size, "%s%s", missed.first, missed.count > 1 ? ", and more" : "");
    return missed.count > 0;
}

static int read_text(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a recorded host may hold a pipe */
    if (fd < 0) {
        note_missed(path);
        return 0;
    }
    char text[4096]; /* an attribute is never larger than a page */
    ssize_t len = read(fd, text, sizeof text - 1);
    if (len < 0)
        note_missed(path);
    close(fd);
    if (len < 0)
        return 0;
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    mn_strlcpy(buf, text, size);
    mn_clean(buf);
    return 1;
}

int mn_sysfs_text(const char *root, char *buf, size_t size, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, fmt);
    int fits = join(path, root, fmt, args);
    va_end(args);
    return fits && read_text(path, buf, size);
}

int mn_sysfs_number(const char *root, long long *value, const char *fmt, ...)
{
    char path[PATH_MAX], text[64], *end;
    va_list args;
    va_start(args, fmt);
    int fits = join(path, root, fmt, args);
    va_end(args);
    if (!fits || !read_text(path, text, sizeof text))
        return 0;
    errno = 0;
    long long number = strtoll(text, &end, 0);
    if (end == text || *end != '\0' || errno != 0)
        return 0;
    *value = number;
    return 1;
}

int mn_sysfs_resolve(const char *root, char *buf, size_t size, const char *fmt, ...)
{
    char path[PATH_MAX], real_root[PATH_MAX], real[PATH_MAX];
    va_list args;
    va_start(args, fmt);
    int fits = join(path, root, fmt, args);
    va_end(args);
    if (!fits || !realpath(root, real_root) || !realpath(path, real))
        return 0;
    size_t len = strlen(real_root);
    if (strncmp(real, real_root, len) != 0 || real[len] != '/')
        return 0;
    const char *rest = real + len;
    if (strlen("/sys") + strlen(rest) >= size)
        return 0;
    snprintf(buf, size, "/sys%s", rest);
    return 1;
}

enum mn_err mn_sysfs_each(const char *root, const char *dir,
                          enum mn_err (*each)(void *arg, const char *name, struct mn_diag *diag),
                          void *arg, struct mn_diag *diag)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", root, dir) >= (int)sizeof path)
        return MN_OK;
    DIR *stream = opendir(path);
    if (!stream) {
        note_missed(path);
        return MN_OK;
    }
    enum mn_err err = MN_OK;
    const struct dirent *entry;
    while (err == MN_OK && (entry = readdir(stream)))
        if (entry->d_name[0] != '.')
            err = each(arg, entry->d_name, diag);
    closedir(stream);
    return err;
}

double mn_sysfs_decimal(const char *text)
{
    double value = 0, unit = 1;
    if (!isdigit((unsigned char)*text))
        return 0;
    for (; isdigit((unsigned char)*text); text++)
        value = value * 10 + (*text - '0');
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++)
            value += (*text - '0') * (unit /= 10);
    return value;
}

/* "0000:01:00.0"; domains above 0xffff (VMD) have more digits. */
static int is_pci_address(const char *name)
{
    unsigned domain, bus, slot, function;
    int used = 0;
    return sscanf(name, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) == 4 &&
           name[used] == '\0' && strlen(name) >= strlen("0000:00:00.0");
}

/* "Unknown", 0 and 255 are what bridges without link registers and virtual functions say. */
static int read_width(const char *root, const char *path, const char *name)
{
    long long width;
    return mn_sysfs_number(root, &width, "%s/%s", path, name) && width > 0 && width <= 32
               ? (int)width
               : 0;
}

static double read_speed(const char *root, const char *path, const char *name)
{
    char text[64];
    return mn_sysfs_text(root, text, sizeof text, "%s/%s", path, name) ? mn_sysfs_decimal(text) : 0;
}

static void read_pci_link(const char *root, const char *path, struct mn_pci *pci)
{
    pci->width = read_width(root, path, "current_link_width");
    pci->max_width = read_width(root, path, "max_link_width");
    pci->speed = read_speed(root, path, "current_link_speed");
    pci->max_speed = read_speed(root, path, "max_link_speed");
}

void mn_pci_read(const char *root, const char *device, struct mn_pci *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->numa = -1;
    char path[sizeof pci->path];
    if (!mn_sysfs_resolve(root, path, sizeof path, "%s", device))
        return;
    /* A virtio, auxiliary or Thunderbolt device hangs below the function that carries it. */
    char *name = strrchr(path, '/');
    while (name && !is_pci_address(name + 1)) {
        *name = '\0';
        name = strrchr(path, '/');
    }
    if (!name)
        return;
    memcpy(pci->path, path, sizeof path);
    mn_strlcpy(pci->address, name + 1, sizeof pci->address);

    const char *below = path + strlen("/sys/");
    long long number;
    if (mn_sysfs_number(root, &number, "%s/numa_node", below))
        pci->numa = number < 0 ? -1 : (int)number;
    read_pci_link(root, below, pci);
    /* The link registers of a virtual function read zero: the link is the physical function's. */
    char physical[sizeof pci->path];
    if (pci->width == 0 && mn_sysfs_resolve(root, physical, sizeof physical, "%s/physfn", below))
        read_pci_link(root, physical + strlen("/sys/"), pci);
}

/* phys_port_id names one port of one board by definition; the switch id names the board (ASIC) and
 * needs the port name beside it. */
static void read_phys_port(const char *root, struct mn_nic *nic)
{
    char id[40], port[IF_NAMESIZE];
    if (mn_sysfs_text(root, id, sizeof id, "class/net/%s/phys_port_id", nic->netdev) && *id)
        mn_strlcpy(nic->phys_port, id, sizeof nic->phys_port);
    else if (mn_sysfs_text(root, id, sizeof id, "class/net/%s/phys_switch_id", nic->netdev) &&
             *id &&
             mn_sysfs_text(root, port, sizeof port, "class/net/%s/phys_port_name", nic->netdev) &&
             *port)
        snprintf(nic->phys_port, sizeof nic->phys_port, "%s/%s", id, port);
}

/* thunderbolt-net has no speed of its own; the cable below it has: "20.0 Gb/s" a lane. */
static long read_thunderbolt_speed(const char *root, const struct mn_nic *nic)
{
    char text[64];
    long long lanes;
    if (!mn_sysfs_text(root, text, sizeof text, "class/net/%s/device/../tx_speed", nic->netdev) ||
        !mn_sysfs_number(root, &lanes, "class/net/%s/device/../tx_lanes", nic->netdev) ||
        lanes < 1 || lanes > 16)
        return 0;
    return (long)(mn_sysfs_decimal(text) * 1000 * (double)lanes + 0.5);
}

void mn_nic_read_sysfs(const char *root, struct mn_nic *nic)
{
    char path[PATH_MAX];
    long long number;
    nic->pci.numa = -1;
    /* A sysfs mounted in another network namespace shows other netdevs by the same names. */
    if (mn_sysfs_number(root, &number, "class/net/%s/ifindex", nic->netdev) &&
        number != nic->ifindex)
        return;
    /* Unknown is -1, 65535 or 4294967295 by kernel version and driver. */
    if (mn_sysfs_number(root, &number, "class/net/%s/speed", nic->netdev) && number > 0 &&
        number != UINT16_MAX && number < INT32_MAX)
        nic->speed_mbps = (long)number;
    read_phys_port(root, nic);

    if (mn_sysfs_resolve(root, path, sizeof path, "class/net/%s/device/driver", nic->netdev))
        mn_strlcpy(nic->driver, strrchr(path, '/') + 1, sizeof nic->driver);
    if (nic->kind == MN_NIC_ETHERNET && strcmp(nic->driver, "thunderbolt-net") == 0)
        nic->kind = MN_NIC_THUNDERBOLT;
    if (nic->kind == MN_NIC_THUNDERBOLT && nic->speed_mbps == 0)
        nic->speed_mbps = read_thunderbolt_speed(root, nic);
    nic->is_vf =
        mn_sysfs_resolve(root, path, sizeof path, "class/net/%s/device/physfn", nic->netdev);
    nic->wireless = mn_sysfs_resolve(root, path, sizeof path, "class/net/%s/phy80211", nic->netdev);
    snprintf(path, sizeof path, "class/net/%s/device", nic->netdev);
    mn_pci_read(root, path, &nic->pci);
}
