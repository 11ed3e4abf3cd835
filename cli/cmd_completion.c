#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/pages.h"

static const struct mn_opt options[] = {
    MN_OPT_END,
};

static void words(const struct mn_command *cmd)
{
    printf("        '%s') words=\"--help", cmd->name);
    for (const struct mn_opt *row = cmd->options; row->name; row++)
        printf(" --%s", row->name);
    for (int i = 0; cmd->parts && cmd->parts[i]; i++)
        printf(" %s", mn_cmd_word(cmd->parts[i]));
    printf("\" ;;\n");
}

/* Behind those of the command by its second word. */
static void words_of_parts(void)
{
    fputs("    [ \"$COMP_CWORD\" -gt 2 ] && case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n",
          stdout);
    for (int i = 0; mn_commands[i]; i++)
        for (int k = 0; mn_commands[i]->parts && mn_commands[i]->parts[k]; k++)
            words(mn_commands[i]->parts[k]);
    fputs("    esac\n", stdout);
}

static int run(const void *values, int argc, char **argv)
{
    (void)values;
    if (argc != 1 || strcmp(argv[0], "bash") != 0) {
        fputs("meshnet completion: expected the shell's name: bash\n", stderr);
        return 2;
    }
    fputs("_meshnet() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
          "    case ${COMP_CWORD}:${COMP_WORDS[1]} in\n"
          "        1:*) words=\"--help --version help",
          stdout);
    for (int i = 0; mn_commands[i]; i++)
        printf(" %s", mn_commands[i]->name);
    fputs("\" ;;\n    esac\n    [ \"$COMP_CWORD\" -gt 1 ] && case ${COMP_WORDS[1]} in\n", stdout);
    fputs("        help) words=\"", stdout);
    for (int i = 0; mn_pages[i].name; i++)
        printf("%s%s", i ? " " : "", mn_page_short(&mn_pages[i]));
    fputs("\" ;;\n", stdout);
    for (int i = 0; mn_commands[i]; i++)
        words(mn_commands[i]);
    fputs("    esac\n", stdout);
    words_of_parts();
    fputs("    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "}\n"
          "complete -o default -F _meshnet meshnet\n",
          stdout);
    return 0;
}

const struct mn_command mn_cmd_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .usage = "bash",
    .options = options,
    .options_size = 1,
    .notes = "Example: meshnet completion bash >/etc/bash_completion.d/meshnet",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "the output could not be written"},
              {2, MN_REFUSED "another shell than bash"}},
    .run = run,
};
