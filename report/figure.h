/* A figure: a gnuplot script and its data, drawn three times, as a wide SVG, as a PNG, and as a
 * narrow SVG that is readable on a phone. */
#ifndef PSTAR_REPORT_FIGURE_H
#define PSTAR_REPORT_FIGURE_H

#include <glib.h>
#include <stdbool.h>

#define FIGURE_WIDE  960 /* pixels across */
#define FIGURE_PHONE 360

#define FIGURE_COLUMNS 100 /* characters across, in a terminal */

struct figure {
    char *name;    /* of its files: NAME.gp, NAME.dat, NAME.svg, NAME.png, NAME-phone.svg */
    char *title;   /* what is shown; a heading */
    char *alt;     /* what is to be seen, for those who do not see it */
    char *caption; /* how to read it */
    int wide_height, phone_height; /* pixels */
    GString *data;                 /* of NAME.dat */
    GString *setup;                /* gnuplot: definitions, once */
    GString *drawing;              /* gnuplot: drawn for each of the three; `phone` says which */
    char *svg, *phone_svg;         /* set by figure_draw: the text of the files */
};

/* Takes the strings over. Data, setup and drawing are empty. */
struct figure *figure_new(char *name, char *title);
void figure_free(struct figure *figure);

/* "stem", "stem-2", ...: number counts from 0. Free with g_free. */
char *figure_name(const char *stem, unsigned number);

/* The program, for figure_draw; NULL with REPORT_ERROR_FAILED where it is not in PATH. Free with
 * g_free. */
char *figure_find_gnuplot(GError **error);

/* Writes the files into `folder`, which exists. The script can be run again there by itself. */
bool figure_draw(struct figure *figure, const char *folder, const char *gnuplot, GError **error);

/* Appends the figure as characters, FIGURE_COLUMNS wide; its data goes into `folder`. */
bool figure_draw_text(const struct figure *figure, const char *folder, const char *gnuplot,
                      GString *text, GError **error);

#endif
