import { defineConfig } from 'vitest/config';

// One server for all files, so they run one after the other. CAISSON_URL and CAISSON_TOKEN say which; the token is an
// administrator's.
export default defineConfig({
  test: {
    include: ['test/**/*_test.ts'],
    fileParallelism: false,
    pool: 'threads',
    testTimeout: 60_000,
  },
});
