import { defineConfig, type Plugin } from 'vite';

// The server sends a strict Content-Security-Policy: scripts and styles come from files of their
// own, so nothing is inlined here. `npm run dev` passes calls on to a real server.
const server = process.env.CAISSON_SERVER ?? 'http://127.0.0.1:8080';
const passOn = { target: server, changeOrigin: true, ws: true, headers: { origin: server } };

// xterm takes a document of ours by an option, but two of its parts use the global one. Inside of
// its module the name then means ours (src/terminal/safe_document.ts says what it is for).
const xtermDocument: Plugin = {
  name: 'xterm-document',
  transform(code, id) {
    if (!/@xterm\/xterm\/lib\/xterm\.mjs$/.test(id)) return undefined;
    const own = code.replace(/\bwindow\.document\b/g, 'document');
    return {
      code: `import { page as document } from '/src/terminal/safe_document.ts';\n${own}`,
      map: null,
    };
  },
};

export default defineConfig({
  plugins: [xtermDocument],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
  },
  server: {
    host: '127.0.0.1',
    proxy: { '/api': passOn, '/auth': passOn, '/metrics': passOn, '/healthz': passOn },
  },
});
