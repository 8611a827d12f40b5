if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${KILN_SANITIZE})
endif()
