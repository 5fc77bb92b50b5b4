import { PrunedItems, shape } from './jsonShape.ts';
import { nameObject, type ResponseFormat } from './responseFormat.ts';

const LIST = shape({ data: { items: shape({ id: 'value' }), keeps: () => true } });
const NOTHING = shape({});

/** The input items of a stored response: all that matters of them is their ids, which a later request may name. */
export const itemListFormat: ResponseFormat = {
  markers: [],
  eventShape: NOTHING,
  bodyShape: LIST,
  plainBodyShape: LIST,
  details: [],
  readEvent: () => false,
  readBody: ({ data }, facts) => {
    if (data instanceof PrunedItems) for (const { id } of data.kept) nameObject(facts, id);
  },
  textOfEvent: () => '',
  textOfBody: () => '',
};
