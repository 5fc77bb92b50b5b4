import { hostileSuite } from './suite.ts';

hostileSuite('distributed');
