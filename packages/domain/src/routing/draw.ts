/**
 * A number from 0 up to 1. What draws the same for the same name makes an order that others come to as well, and that stays
 * when something of it is gone (weighted rendezvous hashing).
 */
export type Draw = (name?: string) => number;

/**
 * Draws an order: each comes first with the probability of its share of the weights, and so on among those that are left
 * (Efraimidis and Spirakis, 2006: the first of exponential arrivals). A weight of 0 counts as 1: who sent it does not tell.
 */
export function drawnByWeight<Item extends { readonly weight: number }>(
  items: readonly Item[],
  draw: (item: Item) => number,
): readonly Item[] {
  if (items.length < 2) return items;
  return items
    .map((item) => ({ item, at: -Math.log(1 - draw(item)) / (item.weight || 1) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
