-- Whether a proxy takes tables as rows. One of release 0.1.0 gets them in one message, which bounds them for as long as it may serve.
ALTER TABLE proxies ADD COLUMN takes_rows boolean NOT NULL DEFAULT false;
