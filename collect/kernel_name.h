/* Names of kernels for people. */
#ifndef PSTAR_COLLECT_KERNEL_NAME_H
#define PSTAR_COLLECT_KERNEL_NAME_H

/* "_Z5scaleIfEvPfi" becomes "void scale<float>(float*, int)", where the C++ runtime is there to say
 * so; else, and where the name is none of C++, it stays as it is. Free with g_free. */
char *kernel_name_demangle(const char *name);

/* "void ns::scale<float>(float*, int)" becomes "scale". Free with g_free. */
char *kernel_name_short(const char *demangled);

#endif
