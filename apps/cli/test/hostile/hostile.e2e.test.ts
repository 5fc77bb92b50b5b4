import { hostileSuite } from './suite.ts';

// `pnpm test:all` runs every case, in both modes.
hostileSuite('embedded', 9);
