import { hostileSuite } from './suite.ts';

hostileSuite('embedded');
