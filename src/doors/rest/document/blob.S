/* The contract, its page and the page's policy as bytes of the program. */
  .section .rodata
  .global caisson_openapi_begin
  .global caisson_openapi_end
  .global caisson_docs_begin
  .global caisson_docs_end
  .global caisson_docs_csp_begin
  .global caisson_docs_csp_end
caisson_openapi_begin:
  .incbin CAISSON_OPENAPI_PATH
caisson_openapi_end:
caisson_docs_begin:
  .incbin CAISSON_DOCS_PATH
caisson_docs_end:
caisson_docs_csp_begin:
  .incbin CAISSON_DOCS_CSP_PATH
caisson_docs_csp_end:
  .section .note.GNU-stack,"",%progbits
