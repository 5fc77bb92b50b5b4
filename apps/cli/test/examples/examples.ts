import { fileURLToPath } from 'node:url';

/** The path of an example of docs/examples. */
export const exampleFile = (name: string): string =>
  fileURLToPath(new URL(`../../../../docs/examples/${name}`, import.meta.url));
