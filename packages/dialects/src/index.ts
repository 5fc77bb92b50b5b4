export { readCount, writeCount } from './counting.ts';
export { ENVELOPE_MARKS } from './envelopeMarks.ts';
export { FORMATS, type Format, OWNERS, type TargetFormat } from './format.ts';
export type { VendorError } from './ir/event.ts';
export { EFFORTS, type Effort, type HostedService, type MediaKind } from './ir/request.ts';
export {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  JsonCursor,
  JsonScanError,
  LongValues,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  type Span,
  TooManyItems,
} from './json/jsonCursor.ts';
export { KeyWatch, type MarkedValues } from './json/keyWatch.ts';
export type { ResponseStorage } from './loss/fields.ts';
export { type Loss, type LossPolicy, lossPattern, type Verdict } from './loss/losses.ts';
export { withCapabilities } from './quirks/capabilities.ts';
export { DEFAULT_QUIRKS, type Quirks } from './quirks/quirks.ts';
export { continuedRequest, inputItems, joinItems } from './responses/continued.ts';
export {
  type AnswerOptions,
  StreamFolder,
  StreamTranslator,
  type TranslatedAnswer,
  translateDocument,
  translateError,
} from './translateAnswer.ts';
export {
  type AnswerPlan,
  type Asked,
  type ParsedRequest,
  parseRequest,
  type Translation,
  type TranslationOptions,
  translateRequest,
} from './translateRequest.ts';
export { envelopeCuts } from './unseal.ts';
export { ChunkList } from './wire/chunkList.ts';
export type { SealScope } from './wire/seal.ts';
export { dataInPlace, eventData, type MemoryHold, SseSplitter } from './wire/sseSplitter.ts';
export type { Target } from './writeContext.ts';
