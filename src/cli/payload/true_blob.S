/* A static `true` as bytes of the command. */
  .section .rodata
  .global caisson_true_begin
  .global caisson_true_end
caisson_true_begin:
  .incbin CAISSON_TRUE_PATH
caisson_true_end:
  .section .note.GNU-stack,"",%progbits
