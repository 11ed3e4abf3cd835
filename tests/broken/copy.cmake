# cmake -DFROM=FILE -DTO=FILE;… -P copy.cmake
foreach(to ${TO})
  file(COPY_FILE ${FROM} ${to})
endforeach()
