import { messagesError, readMessagesError } from './anthropic/errors.ts';
import { foldMessages } from './anthropic/fold.ts';
import { readMessagesAnswer } from './anthropic/readAnswer.ts';
import { MESSAGES_SHAPE, readMessagesRequest } from './anthropic/readRequest.ts';
import { MessagesStreamReader } from './anthropic/readStream.ts';
import { writeMessagesRequest } from './anthropic/writeRequest.ts';
import { MessagesStreamWriter } from './anthropic/writeStream.ts';
import { foldChat } from './chat/fold.ts';
import { readChatAnswer } from './chat/readAnswer.ts';
import { CHAT_SHAPE, readChatRequest } from './chat/readRequest.ts';
import { ChatStreamReader } from './chat/readStream.ts';
import { writeChatRequest } from './chat/writeRequest.ts';
import { ChatStreamWriter } from './chat/writeStream.ts';
import type { Format } from './format.ts';
import { geminiError, readGeminiError } from './gemini/errors.ts';
import { foldGemini } from './gemini/fold.ts';
import { GEMINI_SHAPE, readGeminiRequest } from './gemini/readRequest.ts';
import { GeminiStreamReader } from './gemini/readStream.ts';
import { writeGeminiRequest } from './gemini/writeRequest.ts';
import { GeminiStreamWriter } from './gemini/writeStream.ts';
import type { AnswerContext } from './ir/answer.ts';
import type { StreamEvent, StreamReader, StreamWriter, VendorError } from './ir/event.ts';
import type { FoldedAnswer } from './ir/fold.ts';
import type { ModelRequest } from './ir/request.ts';
import type { KeptShape } from './json/parseBody.ts';
import type { ReadContext } from './loss/fields.ts';
import { openaiError, readOpenaiError } from './responses/errors.ts';
import { foldResponses } from './responses/fold.ts';
import { readResponsesAnswer } from './responses/readAnswer.ts';
import { RESPONSES_SHAPE, readResponsesRequest } from './responses/readRequest.ts';
import { ResponsesStreamReader } from './responses/readStream.ts';
import { writeResponsesRequest } from './responses/writeRequest.ts';
import { ResponsesStreamWriter } from './responses/writeStream.ts';
import type { RequestWriter } from './writeContext.ts';

/** What translates one format to and from a request and an answer in no vendor's dialect. */
export interface FormatTranslator {
  /** What is kept of a request as it was written. */
  readonly shape: KeptShape;
  readonly readRequest: (value: unknown, context: ReadContext) => ModelRequest;
  readonly writeRequest: RequestWriter;
  readonly streamReader: (answerId: string) => StreamReader;
  readonly streamWriter: (context: AnswerContext) => StreamWriter;
  /** The events of an answer that is one JSON document. */
  readonly readAnswer: (body: string, answerId: string) => readonly StreamEvent[];
  /** The answer as one JSON document, to be written by `writeJson`. */
  readonly fold: (answer: FoldedAnswer, context: AnswerContext) => object;
  readonly readError: (body: string, status: number) => VendorError;
  readonly writeError: (error: VendorError) => object;
}

export const TRANSLATORS: Readonly<Record<Format, FormatTranslator>> = {
  messages: {
    shape: MESSAGES_SHAPE,
    readRequest: readMessagesRequest,
    writeRequest: writeMessagesRequest,
    streamReader: () => new MessagesStreamReader(),
    streamWriter: (context) => new MessagesStreamWriter(context),
    readAnswer: readMessagesAnswer,
    fold: foldMessages,
    readError: readMessagesError,
    writeError: messagesError,
  },
  responses: {
    shape: RESPONSES_SHAPE,
    readRequest: readResponsesRequest,
    writeRequest: writeResponsesRequest,
    streamReader: () => new ResponsesStreamReader(),
    streamWriter: (context) => new ResponsesStreamWriter(context),
    readAnswer: readResponsesAnswer,
    fold: foldResponses,
    readError: readOpenaiError,
    writeError: openaiError,
  },
  chat: {
    shape: CHAT_SHAPE,
    readRequest: readChatRequest,
    writeRequest: writeChatRequest,
    streamReader: () => new ChatStreamReader(),
    streamWriter: (context) => new ChatStreamWriter(context),
    readAnswer: readChatAnswer,
    fold: foldChat,
    readError: readOpenaiError,
    writeError: openaiError,
  },
  gemini: {
    shape: GEMINI_SHAPE,
    readRequest: readGeminiRequest,
    writeRequest: writeGeminiRequest,
    streamReader: (answerId) => new GeminiStreamReader(answerId),
    streamWriter: (context) => new GeminiStreamWriter(context),
    readAnswer: readGeminiAnswer,
    fold: foldGemini,
    readError: readGeminiError,
    writeError: geminiError,
  },
};

/** A document is a stream's only event. */
function readGeminiAnswer(body: string, answerId: string): readonly StreamEvent[] {
  const reader = new GeminiStreamReader(answerId);
  return [...reader.push(body), ...reader.end()];
}
