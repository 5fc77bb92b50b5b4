/** The format of a body: what one operation of a dialect takes and answers. */
export type Format = 'messages' | 'responses' | 'chat' | 'gemini';
/** What a request can be translated to. No caller speaks Bedrock's Converse. */
export type TargetFormat = Format | 'converse';

export const FORMATS = ['messages', 'responses', 'chat', 'gemini'] as const satisfies readonly Format[];

/** Who issues the opaque values of a format, where its vendor is the original one. */
export const OWNERS: Readonly<Record<TargetFormat, string>> = {
  messages: 'anthropic',
  responses: 'openai',
  chat: 'openai',
  gemini: 'google',
  converse: 'bedrock',
};
