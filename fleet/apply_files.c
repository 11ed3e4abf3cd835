/* Where the distribution keeps the configuration of NICs, and the files of a node for it. What is
 * in them is topo/emit's. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/apply_kernel.h"
#include "fleet/apply_place.h"
#include "fleet/apply_program.h"
#include "topo/base/alloc.h"
#include "topo/emit/emit.h"

#define WANTS "/etc/systemd/system/multi-user.target.wants/"
#define OURS  "# Written by meshnet topo " /* how each file begins, after a "#!" */

static const struct mn_manager managers[] = {
    {.name = "netplan",
     .format = "netplan",
     .all = {"/etc/netplan", "/usr/sbin/netplan"},
     .reload = {"netplan", "generate"}},
    {.name = "NetworkManager",
     .format = "keyfile",
     .any = {"/run/NetworkManager", WANTS "NetworkManager.service"},
     .old = "/etc/NetworkManager/system-connections/meshnet-*.nmconnection",
     .reload = {"nmcli", "connection", "reload"}},
    {.name = "systemd-networkd",
     .format = "networkd",
     .any = {"/run/systemd/netif/state", WANTS "systemd-networkd.service"},
     .old = "/etc/systemd/network/60-meshnet-*.network",
     .reload = {"networkctl", "reload"}},
    {.name = "systemd",
     .format = "iproute2",
     .any = {"/run/systemd/system", "/etc/systemd/system"},
     .reload = {"systemctl", "daemon-reload"}},
    {.name = "script",
     .format = "iproute2",
     .note = "nothing is known here that sets NICs up at boot (netplan, NetworkManager, "
             "systemd-networkd, systemd): until then it holds; have /etc/meshnet/meshnet-ip.sh run "
             "at boot"},
};
#define MANAGERS (sizeof managers / sizeof *managers)

static int is_there(const char *root, const char *path)
{
    struct stat st; /* of a link itself: in a folder for an image it leads nowhere */
    char *whole = mn_asprintf("%s%s", root, path);
    int there = !lstat(whole, &st);

    free(whole);
    return there;
}

const struct mn_manager *mn_manager_find(const char *root)
{
    for (size_t i = 0; i < MANAGERS; i++) {
        const struct mn_manager *m = &managers[i];
        int all = 1, any = !m->any[0];
        for (int k = 0; m->all[k]; k++)
            all &= is_there(root, m->all[k]);
        for (int k = 0; m->any[k]; k++)
            any |= is_there(root, m->any[k]);
        if (all && any)
            return m;
    }
    return &managers[MANAGERS - 1];
}

const struct mn_manager *mn_manager_named(const char *name)
{
    for (size_t i = 0; i < MANAGERS; i++)
        if (!strcmp(managers[i].name, name))
            return &managers[i];
    return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

/* systemd's name of a device: '-' and what is no letter or digit as \xNN. */
static void put_device(FILE *file, const char *netdev)
{
    fputs("sys-subsystem-net-devices-", file);
    for (const char *c = netdev; *c; c++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:", *c))
            fputc(*c, file);
        else
            fprintf(file, "\\x%02x", (unsigned char)*c);
    fputs(".device", file);
}

/* Runs the script at boot, when the NICs are there. The second file starts it without "systemctl
 * enable". */
static void add_unit(const struct mn_mesh *mesh, int node, struct mn_emit *out)
{
    FILE *file = mn_emit_begin(out, 0644, "/etc/systemd/system/meshnet-ip.service");
    const struct mn_mesh_nic *nic;

    mn_emit_head(file, "iproute2", mesh, node);
    fputs("[Unit]\nDescription=Addresses of the mesh\nAfter=network-pre.target\n", file);
    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        fputs("Wants=", file);
        put_device(file, nic->netdev);
        fputs("\nAfter=", file);
        put_device(file, nic->netdev);
        fputc('\n', file);
    }
    fputs("\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
          "ExecStart=/bin/sh /etc/meshnet/meshnet-ip.sh\n",
          file);
    fclose(file);
    file = mn_emit_begin(out, 0644, "/etc/systemd/system/multi-user.target.d/60-meshnet.conf");
    mn_emit_head(file, "iproute2", mesh, node);
    fputs("[Unit]\nWants=meshnet-ip.service\n", file);
    fclose(file);
}

static int is_ours(const char *text)
{
    if (!strncmp(text, "#!", 2))
        text += strcspn(text, "\n") + 1;
    return !strncmp(text, OURS, strlen(OURS));
}

static void add_write(const char *path, const struct mn_emit_file *file, struct mn_changes *files,
                      char ***notes, size_t *n_notes)
{
    struct mn_diag diag;
    unsigned mode;
    char *old;

    if (mn_place_read(path, &old, &mode, &diag)) {
        char *text = mn_asprintf("%s; it is written anew", diag.text);
        mn_text_push(notes, n_notes, text);
        free(text);
    }
    if (!old || strcmp(old, file->text) != 0 || mode != file->mode) {
        struct mn_change *c = mn_change_add(files, MN_CHANGE_FILE, NULL, path, old, file->text);
        c->from_mode = old ? mode : 0;
        c->to_mode = file->mode;
    }
    free(old);
}

static void add_removal(const char *path, struct mn_changes *files)
{
    unsigned mode;
    char *old;

    if (!mn_place_read(path, &old, &mode, NULL) && old && is_ours(old))
        mn_change_add(files, MN_CHANGE_FILE, NULL, path, old, NULL)->from_mode = mode;
    free(old);
}

/* Files of an earlier run for NICs that the mesh file no longer has. */
static void add_removals(const char *pattern, const char *root, const struct mn_emit *out,
                         struct mn_changes *files)
{
    char *whole = mn_asprintf("%s%s", root, pattern);
    glob_t found = {.gl_pathc = 0};

    if (!glob(whole, 0, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc; i++) {
            int written = 0;
            for (size_t k = 0; k < out->n_files; k++)
                written |= !strcmp(found.gl_pathv[i] + strlen(root), out->files[k].path);
            if (!written)
                add_removal(found.gl_pathv[i], files);
        }
    globfree(&found);
    free(whole);
}

/* --- files of others ---------------------------------------------------------------------------
 */

static const char *const others[] = {"/etc/netplan/*.yaml", "/run/netplan/*.yaml",
                                     "/etc/systemd/network/*.network",
                                     "/run/systemd/network/*.network",
                                     "/etc/NetworkManager/system-connections/*"};

/* As a word of its own: "p0" is not in "p01" nor in "enp0s1". */
static int has_word(const char *text, const char *word)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t len = strlen(word);

    for (const char *at = text; len && (at = strcasestr(at, word)); at++)
        if ((at == text || !strchr(letters, at[-1])) && (!at[len] || !strchr(letters, at[len])))
            return 1;
    return 0;
}

static int names_nic(const char *text, const struct mn_mesh_nic *nic)
{
    const uint8_t *m = nic->mac;
    char mac[18];

    snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    return has_word(text, nic->netdev) || (nic->has_mac && has_word(text, mac));
}

/* Who writes about the same NIC may win at boot: that is for the person to see. */
static void note_other(const char *path, const struct mn_mesh *mesh, int node, char ***notes,
                       size_t *n_notes)
{
    const struct mn_mesh_nic *nic;
    unsigned mode;
    char *text;

    if (mn_place_read(path, &text, &mode, NULL) || !text)
        return;
    for (size_t i = 0; !is_ours(text) && (nic = mn_emit_nic(mesh, node, &i));)
        if (names_nic(text, nic)) {
            char *note = mn_asprintf("%s is about %s too and may win at boot: look at it, and take "
                                     "the NIC out of it",
                                     path, nic->netdev);
            mn_text_push(notes, n_notes, note);
            free(note);
            break;
        }
    free(text);
}

static void note_others(const struct mn_mesh *mesh, int node, const char *root, char ***notes,
                        size_t *n_notes)
{
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        char *whole = mn_asprintf("%s%s", root, others[k]);
        glob_t found = {.gl_pathc = 0};
        if (!glob(whole, 0, NULL, &found))
            for (size_t i = 0; i < found.gl_pathc; i++)
                note_other(found.gl_pathv[i], mesh, node, notes, n_notes);
        globfree(&found);
        free(whole);
    }
}

static int has_work(const struct mn_mesh *mesh, int node)
{
    return mn_emit_nic(mesh, node, &(size_t){0}) != NULL;
}

enum mn_err mn_apply_files(const struct mn_manager *manager, const struct mn_mesh *mesh, int node,
                           const char *root, struct mn_changes *files, char ***notes,
                           size_t *n_notes, struct mn_diag *diag)
{
    struct mn_emit out = {.files = NULL};

    if (!has_work(mesh, node)) {
        mn_text_push(notes, n_notes, "no NIC of it has an address in the mesh file");
        return MN_OK;
    }
    enum mn_err err = mn_emit(mn_emit_find(manager->format), mesh, node, &out, diag);
    if (!err && !strcmp(manager->name, "systemd"))
        add_unit(mesh, node, &out);
    for (size_t i = 0; i < out.n_files && !err; i++) {
        const char *at = out.files[i].path;
        char *path = mn_asprintf("%s%s%s", root, *at == '/' ? "" : "/etc/meshnet/", at);
        err = mn_place_below(root, path, diag);
        if (!err)
            add_write(path, &out.files[i], files, notes, n_notes);
        free(path);
    }
    if (!err && manager->old)
        add_removals(manager->old, root, &out, files);
    if (!err)
        note_others(mesh, node, root, notes, n_notes);
    if (!err && manager->note)
        mn_text_push(notes, n_notes, manager->note);
    mn_emit_free(&out);
    return err;
}

/* --- telling the manager ---------------------------------------------------------------------- */

#define RELOAD_MS 20000

enum mn_err mn_manager_reload(const struct mn_manager *manager, const char *root, char **said,
                              struct mn_diag *diag)
{
    char *path = manager->reload[0] ? mn_program_find(root, manager->reload[0]) : NULL;
    enum mn_err err = MN_OK;

    *said = NULL;
    if (path)
        err = mn_program_run(path, manager->reload, NULL, RELOAD_MS, NULL, diag);
    if (path && !err)
        *said =
            mn_asprintf("%s%s%s%s%s", manager->reload[0], manager->reload[1] ? " " : "",
                        manager->reload[1] ? manager->reload[1] : "", manager->reload[2] ? " " : "",
                        manager->reload[2] ? manager->reload[2] : "");
    free(path);
    return err;
}
