SELECT order_id, result, request FROM payments WHERE state = 'parked';
UPDATE payments SET state = 'open', result = NULL, due = 0 WHERE order_id = '1001';
