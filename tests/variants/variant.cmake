# Configures, builds and exercises one more build of the tree; the ctest entry of a variant.
#   cmake -DSOURCE=... -DBINARY=... -DOPTIONS=-DA=B;... -DTARGETS=a;b -DENVIRONMENT=N=V;... "-DRUN=program argument...;program..." -P variant.cmake
# Programs are relative to BINARY/bin. The first that fails ends the test.
foreach(definition IN LISTS ENVIRONMENT)
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${definition}")
  set(ENV{${CMAKE_MATCH_1}} "${CMAKE_MATCH_2}")
endforeach()
# Each variant starts from an empty cache of its own, and no run before this one decides its result.
set(ENV{KILN_CACHE_DIR} ${BINARY}/kiln-cache)
file(REMOVE_RECURSE ${BINARY}/kiln-cache)

execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DKILN_PROJECT_TESTS=OFF -DKILN_BENCHMARKS=OFF ${OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --target ${TARGETS} COMMAND_ERROR_IS_FATAL ANY)
foreach(command IN LISTS RUN)
  separate_arguments(words UNIX_COMMAND "${command}")
  message(STATUS "run: ${command}")
  execute_process(COMMAND ${BINARY}/bin/${words} WORKING_DIRECTORY ${BINARY} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
