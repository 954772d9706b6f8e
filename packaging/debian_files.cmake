# CPack runs this on the files of the Debian packages, to add what Debian requires.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(gzip gzip REQUIRED)
string(TIMESTAMP day "%a, %d %b %Y %H:%M:%S +0000" UTC)  # From SOURCE_DATE_EPOCH, if set.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER "${component}" COMPONENT)
  set(package "${CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME}")
  set(root "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr")
  set(documents "${root}/share/doc/${package}")
  file(COPY "${CPACK_DISTRUN_PACKAGING}/copyright" DESTINATION "${documents}")
  file(WRITE "${documents}/changelog" "distrun (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md in the source lists the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${day}
")
  file(GLOB compressed "${documents}/changelog" "${root}/share/man/man1/*.1")
  execute_process(COMMAND "${gzip}" --best --no-name ${compressed} COMMAND_ERROR_IS_FATAL ANY)
  set(overrides "${CPACK_DISTRUN_PACKAGING}/${package}.lintian-overrides")
  if(EXISTS "${overrides}")
    configure_file("${overrides}" "${root}/share/lintian/overrides/${package}" COPYONLY)
  endif()
endforeach()
