/* caisson-init as it was linked, between two names. */
        .section .rodata
        .global caisson_init_begin
        .global caisson_init_end
        .balign 4096
caisson_init_begin:
        .incbin CAISSON_INIT_PATH
caisson_init_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
