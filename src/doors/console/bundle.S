/* The files of the console, as bundle.py put them together. */
  .section .rodata
  .global caisson_console_begin
  .global caisson_console_end
caisson_console_begin:
  .incbin CAISSON_CONSOLE_PATH
caisson_console_end:
  .section .note.GNU-stack,"",%progbits
