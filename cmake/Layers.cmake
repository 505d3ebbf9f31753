# tidelock_flags: the compiler flags every target of ours shares.
add_library(tidelock_flags INTERFACE)
target_compile_definitions(tidelock_flags INTERFACE _GNU_SOURCE TIDELOCK_VERSION="${PROJECT_VERSION}")
# -fexceptions: LuaJIT unwinds through C frames when a call raises, and the sanitizers need the tables.
target_compile_options(tidelock_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wno-missing-field-initializers -fno-omit-frame-pointer -fexceptions)
target_link_libraries(tidelock_flags INTERFACE Threads::Threads m)
if(TIDELOCK_ASAN)
  target_compile_options(tidelock_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  target_link_options(tidelock_flags INTERFACE -fsanitize=address,undefined)
endif()
if(TIDELOCK_TSAN)
  target_compile_options(tidelock_flags INTERFACE -fsanitize=thread)
  target_link_options(tidelock_flags INTERFACE -fsanitize=thread)
endif()
if(TIDELOCK_ASAN OR TIDELOCK_TSAN)
  target_compile_definitions(tidelock_flags INTERFACE TIDELOCK_SANITIZED=1)
endif()

# tidelock_layer(NAME [LINKS layer...] [FOREIGN library...] [EXCLUDE file...]): the C files below host/NAME (but EXCLUDE) as libtidelock_NAME.a,
# which sees the headers of all layers (the include test forbids the wrong ones) and links only LINKS.
function(tidelock_layer name)
  cmake_parse_arguments(arg "" "" "LINKS;FOREIGN;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/host/${name}/*.c)
  foreach(file ${arg_EXCLUDE})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/host/${name}/${file})
  endforeach()
  if(NOT sources) # a layer that has headers only so far
    file(TOUCH ${CMAKE_BINARY_DIR}/empty.c)
    set(sources ${CMAKE_BINARY_DIR}/empty.c)
  endif()
  add_library(tidelock_${name} STATIC ${sources})
  target_include_directories(tidelock_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/host)
  target_link_libraries(tidelock_${name} PRIVATE tidelock_flags)
  foreach(layer ${arg_LINKS})
    target_link_libraries(tidelock_${name} PUBLIC tidelock_${layer})
  endforeach()
  foreach(library ${arg_FOREIGN})
    target_link_libraries(tidelock_${name} PUBLIC foreign_${library})
  endforeach()
endfunction()
