# The Lua library as C data. Included by CMakeLists.txt it defines tidelock_bundle(); run with -DFILES=... -DOUT=... -P it writes the file.
# lua/tidelock/init.lua is the module "tidelock", lua/tidelock/NAME.lua is "tidelock.NAME".

if(CMAKE_SCRIPT_MODE_FILE)
  set(table "")
  set(text "// Made by cmake/Bundle.cmake: do not edit.\n#include \"script/bundle.h\"\n\n")
  string(APPEND text "extern const struct bundle_file bundle_files[];\n\n")
  foreach(file ${FILES})
    get_filename_component(stem ${file} NAME_WE)
    file(READ ${file} hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR bytes "${digits} / 2")
    string(REGEX REPLACE "(..)" "0x\\1," data "${hex}")
    string(REGEX REPLACE "([^\n]{1,100})(,)" "\\1,\n" data "${data}")
    string(APPEND text "static const unsigned char text_${stem}[] = {\n${data}0x00};\n\n")
    if(stem STREQUAL "init")
      string(APPEND table "    {\"tidelock\", (const char *)text_${stem}, ${bytes}},\n")
    else()
      string(APPEND table "    {\"tidelock.${stem}\", (const char *)text_${stem}, ${bytes}},\n")
    endif()
  endforeach()
  string(APPEND text "const struct bundle_file bundle_files[] = {\n${table}    {0, 0, 0},\n};\n")
  file(WRITE ${OUT} "${text}")
  return()
endif()

set(TIDELOCK_BUNDLE_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

# Adds all of lua/tidelock but the kit (which runs outside of the sandbox) and the type annotations to a target.
function(tidelock_bundle target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lua/tidelock/*.lua)
  list(FILTER files EXCLUDE REGEX "/(kit|types)[^/]*\\.lua$")
  set(out ${CMAKE_BINARY_DIR}/bundle.c)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${out} -P ${TIDELOCK_BUNDLE_SCRIPT}
    DEPENDS ${files} ${TIDELOCK_BUNDLE_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
