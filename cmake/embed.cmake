# Writes FILE as a C string into OUT: cmake -D FILE=page.css -D SYMBOL=page_css -D OUT=page_css.c -P embed.cmake
#
# Comments between /* and */ are removed, so that they do not make the page larger.
file(READ "${FILE}" text)
string(REGEX REPLACE "/\\*[^*]*\\*/\n" "" text "${text}")
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUT}" "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] =\n    \"${text}\";\n")
