/* The interpreters' own programs, as text. */
  .section .rodata
  .global caisson_python_begin
  .global caisson_python_end
caisson_python_begin:
  .incbin CAISSON_PYTHON_RUN_PATH
  .incbin CAISSON_PYTHON_PARENT_PATH
caisson_python_end:
  .global caisson_node_begin
  .global caisson_node_end
caisson_node_begin:
  .incbin CAISSON_NODE_PATH
caisson_node_end:
  .section .note.GNU-stack,"",%progbits
