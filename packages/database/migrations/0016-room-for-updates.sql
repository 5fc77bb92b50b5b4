-- Rows that are updated all the time: room beside them, so that an update need not touch the indexes.
ALTER TABLE producer_shards SET (fillfactor = 50);
ALTER TABLE spend_buckets SET (fillfactor = 70);
ALTER TABLE usage_by_hour SET (fillfactor = 80);
