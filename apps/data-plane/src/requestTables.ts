// The tables of what requests may be, for the tests that try each field of them.

export { GEMINI_OPERATIONS, OPERATIONS, type Operation } from './formats/operation.ts';
export type { Field, Fields } from './formats/requestFields/field.ts';
