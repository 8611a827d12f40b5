# Builds the outside project against a copy of the prefix in another place: an install that only works where it was made is not one.
file(REMOVE_RECURSE ${BINARY} ${MOVED})
file(COPY ${PREFIX}/ DESTINATION ${MOVED})
set(ENV{KILN_CACHE_DIR} ${BINARY}/kiln-cache)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${MOVED}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BINARY}/outside COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${MOVED})
