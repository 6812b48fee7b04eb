/* caisson-carrier as it was linked, between two names. */
        .section .rodata
        .global caisson_carrier_begin
        .global caisson_carrier_end
        .balign 4096
caisson_carrier_begin:
        .incbin CAISSON_CARRIER_PATH
caisson_carrier_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
