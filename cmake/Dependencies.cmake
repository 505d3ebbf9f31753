# Debian's libraries, each behind one target foreign_NAME that only its own layer links.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

function(foreign_pkg name)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})
  add_library(foreign_${name} INTERFACE)
  target_link_libraries(foreign_${name} INTERFACE PkgConfig::${name})
endfunction()

foreign_pkg(libevent libevent_core libevent_extra libevent_openssl libevent_pthreads)
foreign_pkg(curl libcurl)
foreign_pkg(nghttp2 libnghttp2)
foreign_pkg(zlib zlib)
foreign_pkg(yaml yaml-0.1)
foreign_pkg(crypto libcrypto)
foreign_pkg(ssl libssl)
foreign_pkg(luajit luajit)

# yyjson: the release's own package, or (Debian 12 has none) the next suite's, which
# `make deps` unpacks into TIDELOCK_DEPS; a RUNPATH finds the library there.
set(TIDELOCK_DEPS "${CMAKE_CURRENT_SOURCE_DIR}/build/deps" CACHE PATH "where `make deps` unpacks libraries the system lacks")
file(GLOB unpacked "${TIDELOCK_DEPS}/usr/lib/*/cmake/yyjson")
find_package(yyjson REQUIRED HINTS ${unpacked})
add_library(foreign_yyjson INTERFACE)
target_link_libraries(foreign_yyjson INTERFACE yyjson::yyjson)
