DELIMITER //
CREATE EVENT idempotency_sweep ON SCHEDULE EVERY 1 HOUR DO
sweep: BEGIN
    DECLARE expired BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
    IF NOT GET_LOCK('idempotency_sweep', 0) THEN
        LEAVE sweep;
    END IF;
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; -- locks no gaps, so that no request waits
    REPEAT
        DELETE FROM idempotency_records WHERE expires_at <= expired ORDER BY expires_at LIMIT 1000;
    UNTIL ROW_COUNT() < 1000 OR SLEEP(0.02) END REPEAT;
    DO RELEASE_LOCK('idempotency_sweep');
END sweep//
DELIMITER ;
