import { defineConfig } from 'vite';

/** No inline script, style or image: the page's policy forbids them. */
export default defineConfig({
  root: 'src',
  base: '/console/',
  publicDir: false,
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
