# Two unity batches for a library: one of what every build has, the other of the files that match `of_targets`, which a target left out changes. ccache finds
# the first again in such builds, and would find nothing in one batch of all.
function(kiln_unity_groups library of_targets)
  get_target_property(common ${library} SOURCES)
  set(targets ${common})
  list(FILTER targets INCLUDE REGEX "${of_targets}")
  list(FILTER common EXCLUDE REGEX "${of_targets}")
  set_target_properties(${library} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${common} PROPERTIES UNITY_GROUP common)
  set_source_files_properties(${targets} PROPERTIES UNITY_GROUP targets)
endfunction()
