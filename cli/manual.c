#include "cli/manual.h"

#include <stdio.h>
#include <string.h>

/* ---- roff ---- */

/* Prints text as itself: no letter is taken for a command or for typography. */
static void print_text(const char *text)
{
    bool begins = true;
    for (const char *at = text; *at; at++) {
        if (begins && (*at == '.' || *at == '\''))
            fputs("\\&", stdout);
        begins = *at == '\n';
        switch (*at) {
        case '\\':
            fputs("\\e", stdout);
            break;
        case '-':
            fputs("\\-", stdout);
            break;
        case '\'':
            fputs("\\(aq", stdout);
            break;
        case '`':
            fputs("\\(ga", stdout);
            break;
        case '^':
            fputs("\\(ha", stdout);
            break;
        case '~':
            fputs("\\(ti", stdout);
            break;
        default:
            putchar(*at);
        }
    }
}

static void print_font(char font, const char *text)
{
    printf("\\f%c", font);
    print_text(text);
    fputs("\\fR", stdout);
}

static void print_section(const char *title)
{
    printf(".SH %s\n", title);
}

/* Ends a line of text, which may end with an end of line already. */
static void print_paragraph(const char *text)
{
    fputs(".PP\n", stdout);
    print_text(text);
    if (!g_str_has_suffix(text, "\n"))
        putchar('\n');
}

/* Lines that stay as they are. */
static void print_lines(const char *text)
{
    fputs(".PP\n.nf\n", stdout);
    print_text(text);
    fputs(g_str_has_suffix(text, "\n") ? ".fi\n" : "\n.fi\n", stdout);
}

static void print_term(const char *term, const char *text)
{
    fputs(".TP\n", stdout);
    print_font('B', term);
    putchar('\n');
    print_text(text);
    putchar('\n');
}

/* ---- the parts of a page ---- */

static void print_head(const char *name, const char *purpose)
{
    g_autofree char *title = g_ascii_strup(name, -1);
    printf(".\\\" Made by %s %s\n.TH ", name, MANUAL_ARGUMENT);
    print_text(title);
    puts(" 1 \"\" \"pstar " PSTAR_VERSION "\" \"pstar\"");
    puts(".nh\n.ad l"); /* no hyphens in names, no gaps between words */
    print_section("NAME");
    print_text(name);
    fputs(" \\- ", stdout);
    print_text(purpose);
    putchar('\n');
}

static const struct option *arguments_of(const struct program *program)
{
    for (size_t i = 0; i < program->groups[0].count; i++)
        if (program->groups[0].options[i].arguments)
            return &program->groups[0].options[i];
    return NULL;
}

static void print_use(const struct program *program)
{
    const struct option *arguments = arguments_of(program);
    print_font('B', program->name);
    if (program->command) {
        putchar(' ');
        print_font('B', program->command);
    }
    fputs(" [\\fIOPTION\\fR]...", stdout);
    if (arguments) {
        putchar(' ');
        print_font('I', option_value(arguments));
    }
    putchar('\n');
}

static void print_option(const struct option *option)
{
    const char letter[] = {'-', option_letter(option), '\0'};
    g_autofree char *name = g_strconcat("--", option_name(option), NULL);
    g_autofree char *help = option_help(option);
    fputs(".TP\n", stdout);
    if (letter[1]) {
        print_font('B', letter);
        fputs(", ", stdout);
    }
    print_font('B', name);
    if (option_value(option)) {
        putchar('=');
        print_font('I', option_value(option));
    }
    putchar('\n');
    print_text(help);
    fputs(".\n", stdout);
}

static void print_options(const struct option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!options[i].arguments)
            print_option(&options[i]);
}

static void print_examples(const struct program *program)
{
    for (size_t i = 0; i < program->example_count; i++) {
        print_paragraph(program->examples[i].what);
        fputs(".RS 4\n", stdout);
        print_lines(program->examples[i].command);
        fputs(".RE\n", stdout);
    }
}

static void print_common_end(const char *name)
{
    print_section("VALUES");
    print_paragraph("Sizes are written 64MiB, 1.5GB (10^9), 2G or 2e9, and rates 12GB/s. The "
                    "output - is standard output, unless the output is a trace or a folder.");
    print_section("EXIT STATUS");
    print_term("0", "The work is done.");
    print_term("1", "It failed while running.");
    print_term("2", "The command line or an input is wrong.");
    print_term("3", "The model does not fit. The message says which memory is too small, and by "
                    "how much.");
    print_term("128 + N", "Signal N interrupted a training, which saved what it could. After "
                          "SIGTERM the status is 0 if it saved its last step.");
    print_section("ENVIRONMENT");
    print_term("NO_COLOR", "If it is set, terminals receive no colours.");
    print_term("TERM", "If it is unset or dumb, terminals receive no control sequences.");
    print_section("SEE ALSO");
    if (strcmp(name, "pstar") != 0)
        fputs(".BR pstar (1),\n", stdout);
    print_text("and the documentation in share/doc/pstar.\n");
}

static void print_command(const struct program *program)
{
    printf(".SS %s %s\n", program->name, program->command);
    print_use(program);
    if (program->summary)
        print_paragraph(program->summary);
    print_options(program->groups[0].options, program->groups[0].count);
    print_examples(program);
}

void manual_print(const struct program *program)
{
    if (program->command) {
        print_command(program);
        return;
    }
    print_head(program->name, program->purpose);
    print_section("SYNOPSIS");
    print_use(program);
    print_section("DESCRIPTION");
    print_paragraph(program->summary);
    print_section("OPTIONS");
    for (size_t g = 0; g < program->group_count; g++) {
        if (program->groups[g].title)
            printf(".SS %s\n", program->groups[g].title);
        print_options(program->groups[g].options, program->groups[g].count);
        if (g == 0)
            print_options(options_common, COMMON_OPTIONS);
    }
    if (program->description) {
        print_section("NAMES");
        print_lines(program->description);
    }
    print_section("EXAMPLES");
    print_examples(program);
    print_common_end(program->name);
}

void manual_print_commands(const struct command_set *set)
{
    print_head(set->name, set->purpose);
    print_section("SYNOPSIS");
    print_font('B', set->name);
    puts(" \\fICOMMAND\\fR [\\fIOPTION\\fR]...");
    print_section("DESCRIPTION");
    print_paragraph(set->description);
    print_section("COMMANDS");
    for (size_t i = 0; i < set->count; i++) {
        const struct command *command = &set->commands[i];
        g_autofree char *term = g_strjoin(" ", command->name, command->arguments, NULL);
        g_autofree char *text = g_strconcat(command->purpose, ".", NULL);
        text[0] = g_ascii_toupper(text[0]);
        print_term(g_strchomp(term), text);
    }
    print_term("help COMMAND", "Print the options of a command.");
    print_section("OPTIONS");
    if (!set->are_programs)
        print_options(options_common, COMMON_OPTIONS);
    else {
        print_term("-h, --help", "Print the commands.");
        print_term("--version", "Print the version.");
    }
}

void manual_print_end(const struct command_set *set)
{
    print_common_end(set->name);
    for (size_t i = 0; set->are_programs && i < set->count; i++)
        printf(".br\n.BR %s\\-%s (1)\n", set->name, set->commands[i].name);
}
