# Configures and builds one more build of the tree, and empties its cache of kernels.
#   cmake -DSOURCE=... -DBINARY=... -DOPTIONS=-DA=B;... -DTARGETS=a;b -DCACHE=... -P variant.cmake
file(REMOVE_RECURSE ${CACHE})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DKILN_PROJECT_TESTS=OFF -DKILN_BENCHMARKS=OFF ${OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --target ${TARGETS} COMMAND_ERROR_IS_FATAL ANY)
