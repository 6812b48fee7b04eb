// Beginnings for the create dialog. They only fill the form.
import { blank, type Draft } from './draft';

export interface Example {
  name: string;
  text: string;
  hint: string;
  draft: Partial<Draft>;
}

const service: Partial<Draft> = { root: 'writable', user: '0', timeout: '1h' };

export const kExamples: Example[] = [
  {
    name: 'shell',
    text: 'Shell',
    hint: "the server's own programs",
    draft: { image: 'host', name: 'shell' },
  },
  {
    name: 'web',
    text: 'Web page',
    hint: 'Python serves /workspace on port 8000',
    draft: {
      image: 'host',
      name: 'web',
      command: 'python3 -m http.server 8000',
      files: [{ path: 'index.html', text: '<h1>Hello from a sandbox</h1>\n' }],
    },
  },
  {
    name: 'agent',
    text: 'Coding agent',
    hint: 'undo for each call, packages only',
    draft: {
      image: 'host',
      name: 'agent',
      persistent: true,
      checkpoint: true,
      rules: 'pypi.org 443\nfiles.pythonhosted.org 443',
      memory: '2048',
      timeout: '4h',
    },
  },
  {
    name: 'redis',
    text: 'Redis',
    hint: 'image redis',
    draft: { ...service, image: 'redis', name: 'redis', command: 'redis-server' },
  },
  {
    name: 'nginx',
    text: 'Nginx',
    hint: 'image nginx',
    draft: { ...service, image: 'nginx', name: 'nginx', command: "nginx -g 'daemon off;'" },
  },
  {
    name: 'bash',
    text: 'Bash',
    hint: 'image bash',
    draft: { image: 'bash', name: 'bash', root: 'writable' },
  },
  {
    name: 'firefox',
    text: 'Firefox',
    hint: 'image jlesage/firefox, a desktop in the browser',
    draft: {
      ...service,
      image: 'jlesage/firefox',
      name: 'firefox',
      memory: '2048',
      command: '/init',
    },
  },
  {
    name: 'deno',
    text: 'Deno',
    hint: 'image denoland/deno',
    draft: {
      ...service,
      image: 'denoland/deno',
      name: 'deno',
      command: 'deno eval \'Deno.serve({port: 8000}, () => new Response("Hello"))\'',
    },
  },
];

export const draftOf = (example: Example): Draft => ({ ...blank(), ...example.draft });
