/** What the source of an answer is called. It is cited for all of the text. */
const TITLE = 'The source';

/** In chat completions; in responses, the members are the annotation's own. */
export function chatAnnotations(text: string, url: string | undefined): object[] {
  return url === undefined ? [] : [{ type: 'url_citation', url_citation: placed(text, url) }];
}

export function annotations(text: string, url: string | undefined): object[] {
  return url === undefined ? [] : [{ type: 'url_citation', ...placed(text, url) }];
}

function placed(text: string, url: string) {
  return { start_index: 0, end_index: [...text].length, url, title: TITLE };
}

export function messagesCitation(url: string): object {
  return {
    type: 'web_search_result_location',
    url,
    title: TITLE,
    cited_text: 'as the source says',
    encrypted_index: 'ZW5jcnlwdGVk',
  };
}

export function groundingOf(text: string, url: string | undefined): object {
  if (url === undefined) return {};
  const segment = { endIndex: Buffer.byteLength(text), text };
  return {
    groundingChunks: [{ web: { uri: url, title: TITLE } }],
    groundingSupports: [{ segment, groundingChunkIndices: [0] }],
  };
}
